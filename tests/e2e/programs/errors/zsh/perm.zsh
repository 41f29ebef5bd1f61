echo 'echo 1' > s.sh
./s.sh

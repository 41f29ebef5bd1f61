echo 'echo 1' > s.sh
chmod -x s.sh
./s.sh

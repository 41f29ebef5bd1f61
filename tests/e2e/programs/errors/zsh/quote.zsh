echo ok
echo "unterminated

echo 1
if true; then
  echo 2
fi fi

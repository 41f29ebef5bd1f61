() {
  local n=3
  print $n
  undefined_cmd
} || exit 1

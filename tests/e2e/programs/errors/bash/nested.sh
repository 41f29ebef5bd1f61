main() {
  local r
  r=$(run_it 1)
  echo "$r"
  return 1
}
main

echo start
greet() {
  local x=1
  ehco "hello"
}
greet

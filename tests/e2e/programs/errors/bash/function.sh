greet() {
  ehco "hello"
}
greet

outer() {
  inner
}
inner() {
  echo a
  nothing_here
}
outer

f <- function() {
  g()
}
g <- function() {
  undefined_var + 1
}
f()

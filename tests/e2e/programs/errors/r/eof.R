f <- function(x) {
  x + 1

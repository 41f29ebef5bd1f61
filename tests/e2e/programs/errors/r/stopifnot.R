check <- function(n) {
  stopifnot(n > 0)
}
check(-1)

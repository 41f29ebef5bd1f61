f <- function(x) {
  if (x < 0) stop("negative")
  sqrt(x)
}
f(-1)

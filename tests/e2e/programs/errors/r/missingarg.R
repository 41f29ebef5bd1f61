scale2 <- function(x, k) {
  x * k
}
scale2(2)

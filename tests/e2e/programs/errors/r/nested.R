area <- function(r) {
  if (!is.numeric(r)) {
    stop("radius must be numeric: ", r)
  }
  pi * r^2
}
report <- function(x) {
  cat(area(x), "\n")
}
report("big")

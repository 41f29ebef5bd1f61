x <- 1
library(ggplot2)

library(nobodyhasthis)

speak <- function(x, ...) UseMethod("speak")
speak.dog <- function(x, ...) cat("wuff\n")
pets <- list(structure(list(), class = "dog"), structure(list(), class = "cat"))
for (p in pets) speak(p)

read_config <- function(path) {
  con <- file(path, "r")
  on.exit(close(con))
  readLines(con)
}
cfg <- read_config("settings/app.ini")

abort("no config")

local s = require "lpeg"

local x = 1
local json = require("missing.mod")

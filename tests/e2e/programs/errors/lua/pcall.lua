local ok, e = pcall(error, "x")
local function f() error("again: " .. tostring(e)) end
f()

local function handler(e) return debug.traceback(e, 2) end
local ok, tb = xpcall(function()
  local cfg = nil
  return cfg.port
end, handler)
if not ok then
  io.stderr:write(tb, "\n")
  os.exit(1)
end

code = "x = undefined_thing"
exec(code)

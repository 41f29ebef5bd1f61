error({ code = 2 })

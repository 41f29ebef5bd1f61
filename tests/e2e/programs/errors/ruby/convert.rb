x = Integer("abc")

config = { a: 1 }
case config
in { b: } then puts b
end

begin
  eval("1 +")
rescue SyntaxError => e
  warn e.message
end
raise "the real one"

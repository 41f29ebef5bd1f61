$stderr.puts "warning: main.rb:9: something"
warn "hello"
{ "a" => 1 }.fetch("b")

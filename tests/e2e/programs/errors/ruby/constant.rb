class Foo
  def go
    Bar.new
  end
end
Foo.new.go

package main

func main() {
	var i interface{} = "s"
	println(i.(int))
}

package main

func main() {
	var n int = "abc"
	_ = n
}

package main

type T struct{ x int }

func main() {
	var t *T
	println(t.x)
}

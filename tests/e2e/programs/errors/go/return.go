package main

func f() int {
	println(1)
}

func main() { f() }

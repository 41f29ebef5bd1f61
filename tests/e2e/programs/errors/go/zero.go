package main

import "os"

func main() {
	n := len(os.Args) - 1
	println(1 / n)
}

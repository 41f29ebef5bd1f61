package main

import "fmt"

func run() {
	panic(fmt.Errorf("bad thing %d", 3))
}

func main() {
	run()
}

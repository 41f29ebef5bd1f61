package main

import "fmt"

func main() {
	defer func() {
		r := recover()
		fmt.Println("cleanup", r)
		panic(r)
	}()
	panic("first")
}

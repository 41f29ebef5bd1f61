package main

type T struct{}

func (t T) Run() {}

func main() {
	T{}.Rnu()
}

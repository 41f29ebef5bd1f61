#include <iostream>
#include <stdexcept>
double divide(double a, double b) {
    if (b == 0) throw std::runtime_error("Division by zero!");
    return a / b;
}
int main() { std::cout << divide(1, 0); }

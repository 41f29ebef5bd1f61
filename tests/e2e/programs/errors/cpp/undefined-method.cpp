#include <iostream>

class Shape {
public:
    double area() const;
    double side = 2;
};

int main()
{
    Shape s;
    std::cout << s.area() << "\n";
}

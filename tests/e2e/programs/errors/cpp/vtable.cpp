#include <iostream>

class Logger {
public:
    virtual void write(const char *s);
    virtual ~Logger() {}
};

int main()
{
    Logger l;
    l.write("x");
}

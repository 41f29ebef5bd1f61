#include <memory>
int main() {
    auto a = std::make_unique<int>(1);
    auto b = a;
}

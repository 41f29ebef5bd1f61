#include <stdexcept>
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};
int main() {
    throw Refused("no credit");
}

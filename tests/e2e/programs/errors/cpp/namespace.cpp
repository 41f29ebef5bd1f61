#include <stdexcept>
namespace app {
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
}
static void go() {
    throw app::Error("bad\nthing");
}
int main() { go(); }

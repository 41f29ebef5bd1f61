import java.util.Optional;

public class Main {
    public static void main(String[] args) {
        Optional.empty().get();
    }
}

package com.example.app;

class DataException extends Exception {
    DataException(String m) { super(m); }
}

public class Main {
    static void load() throws DataException {
        throw new DataException("bad data\nin two lines");
    }
    public static void main(String[] args) throws Exception {
        load();
    }
}

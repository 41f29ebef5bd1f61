class Oops extends Error {}
throw new Oops("plain");

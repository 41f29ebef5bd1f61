Promise.reject("no reason");

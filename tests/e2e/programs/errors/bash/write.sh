echo x > /usr/x

"""Small inputs that ask for much time or memory, and a watch over the server that gets them."""

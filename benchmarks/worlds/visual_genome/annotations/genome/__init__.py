"""Visual Genome: objects, attributes, relations, and counting questions made of them."""

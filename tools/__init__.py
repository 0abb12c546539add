"""Tools of development: locks of packages, checks of scripts and styles. Nothing of the product imports them."""

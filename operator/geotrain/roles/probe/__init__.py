"""A pod for a minute that tells whether pods of other data centres can be reached."""

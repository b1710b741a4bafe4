"""The hub's controller: makes what the resources ask for true in every member cluster."""

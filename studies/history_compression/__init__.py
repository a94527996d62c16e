"""History compression: two levels of recurrent networks, put to the test."""

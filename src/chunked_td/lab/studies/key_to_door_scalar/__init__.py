"""Key-to-Door from the scalar reward, ours: nobody says which part of the reward belongs to which state component."""
